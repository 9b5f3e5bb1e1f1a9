"""What the doubles of models share: which answer a call gets, and how a reply is streamed in pieces."""
