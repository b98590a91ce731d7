"""What elasticity costs a training job, measured beside what people use now."""
