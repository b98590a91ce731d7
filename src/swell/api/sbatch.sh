# What a script for sbatch finds on a node of a fixed job: names of Slurm's, and srun for its tasks there.
export SLURM_JOB_ID=$SWELL_JOB_ID SLURM_JOBID=$SWELL_JOB_ID SLURM_JOB_NAME=$0 SLURM_SUBMIT_DIR=$PWD
export SLURM_NNODES=$PET_NNODES SLURM_JOB_NUM_NODES=$PET_NNODES SLURM_NPROCS=$SLURM_NTASKS
export SLURM_NODEID=$PET_NODE_RANK SLURM_PROCID=$PET_NODE_RANK SLURM_LOCALID=0
export SLURM_JOB_NODELIST=$SWELL_HOSTS SLURM_NODELIST=$SWELL_HOSTS
export SLURM_GPUS_ON_NODE=$(echo "$SWELL_DEVICES" | tr , '\n' | wc -l)
scontrol() { echo "$SWELL_HOSTS" | tr , '\n'; }
# Task 0, 1, ... of this node is the $1-th of all $2, and has $3 devices of its own.
swell_task() {
  local at=$((SLURM_LOCALID * ${3:-0})) devices
  export SLURM_PROCID=$1 SLURM_NTASKS=$2 SLURM_NPROCS=$2
  if [[ $2 != "$SLURM_NNODES" ]]; then unset RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE GROUP_RANK; fi
  if [[ -n ${3-} && -n ${CUDA_VISIBLE_DEVICES-} ]]; then
    IFS=, read -ra devices <<<"$CUDA_VISIBLE_DEVICES"
    CUDA_VISIBLE_DEVICES=$(IFS=,; echo "${devices[*]:at:$3}")
  fi
  shift 3
  "$@"
}
srun() {
  local option value each rest begin total='' tasks=$SLURM_NTASKS gpus=${SLURM_GPUS_PER_TASK-} nodes=$SLURM_NNODES status=0 pids=()
  local per_node=$((SLURM_NTASKS / SLURM_NNODES))
  while [[ ${1-} == -* ]]; do
    option=$1 value=''
    case $1 in
      @FLAGS@) ;;
      --*=*) option=${1%%=*} value=${1#*=} ;;
      -[a-zA-Z]?*) option=${1:0:2} value=${1:2} ;;
      *) value=${2-} && shift ;;
    esac
    shift
    case $option in
      -n | --ntasks) total=$value ;;
      -N | --nodes) nodes=$((${value##*-} < SLURM_NNODES ? ${value##*-} : SLURM_NNODES)) tasks='' ;;
      --ntasks-per-node) per_node=$value tasks='' ;;
      --gpus-per-task) gpus=${value##*:} ;;
    esac
  done
  tasks=${total:-${tasks:-$((nodes * per_node))}}
  each=$((tasks / nodes)) rest=$((tasks % nodes))
  begin=$((SLURM_NODEID * each + (SLURM_NODEID < rest ? SLURM_NODEID : rest)))
  each=$((SLURM_NODEID < nodes ? each + (SLURM_NODEID < rest) : 0))
  for ((value = 0; value < each; value++)); do
    (SLURM_LOCALID=$value && swell_task $((begin + value)) "$tasks" "$gpus" "$@") <&0 &
    pids+=($!)
  done
  for value in ${pids[@]+"${pids[@]}"}; do
    wait "$value" || status=$((status ? status : $?))
  done
  return "$status"
}
