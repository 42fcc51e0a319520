"""Operations of the tape done again, alone, to learn what each costs."""
