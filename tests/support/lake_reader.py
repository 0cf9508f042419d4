"""A program that reads the lake with a key that can only read."""

from __future__ import annotations

# As docs/guide/storage.md gives it.
READER = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::LAKE"},
        {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::LAKE/*"},
    ],
}
