"""What the model may use: tools and skills, in one frozen order."""
