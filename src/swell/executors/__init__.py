"""What starts, changes and ends the processes of jobs: commands in, events out."""
