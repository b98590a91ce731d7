"""What the live page and reports are drawn with: styles, scripts and templates that come with the wheel."""
