"""`trl`'s SFTTrainer with a GPT-2 of two layers and a tokenizer of thirty words."""

import sys
from pathlib import Path

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

final = Path(sys.argv[1])
words = ["<pad>", "<end>", *(f"w{number}" for number in range(30))]
tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, "<end>"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<end>")
texts = [" ".join(f"w{(index + place) % 30}" for place in range(3 + index % 6)) for index in range(96)]
torch.set_default_dtype(torch.float32)  # in which its loss is computed
torch.manual_seed(0)
config = GPT2Config(
    vocab_size=32, n_positions=12, n_embd=16, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=1,
    resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
)  # fmt: skip
arguments = SFTConfig(
    output_dir=str(final.parent / "out"),
    max_steps=80,
    max_length=12,
    per_device_train_batch_size=3,
    gradient_accumulation_steps=4,
    learning_rate=1e-2,
    train_sampling_strategy="sequential",
    logging_steps=4,
    save_strategy="no",
    bf16=False,
    gradient_checkpointing=False,
    report_to="none",
    use_cpu=True,
)
trainer = SFTTrainer(
    GPT2LMHeadModel(config),
    arguments,
    train_dataset=Dataset.from_list([{"text": text} for text in texts]),
    processing_class=tokenizer,
)
trainer.train()
if trainer.is_world_process_zero():
    rows = [[each["step"], each["loss"]] for each in trainer.state.log_history if "loss" in each]
    learnt = {name: value.detach().clone() for name, value in trainer.model.state_dict().items()}
    torch.save({**learnt, "rows": torch.tensor(rows)}, final)
