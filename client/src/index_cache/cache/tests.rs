//! What holds whoever asks, and however processes end.
