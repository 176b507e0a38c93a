# Where the shop runs.

variable "region" {
  type    = string
  default = "eu-central-1"
}

resource "aws_s3_bucket" "uploads" {
  bucket = "shop-uploads"
}

resource "aws_s3_bucket_lifecycle_configuration" "uploads" {
  bucket = aws_s3_bucket.uploads.id
  rule {
    id     = "expire-drafts"
    status = "Enabled"
    expiration {
      days = 30
    }
  }
}

resource "aws_security_group" "database" {
  name = "database"
  ingress {
    from_port   = 5432
    to_port     = 5432
    protocol    = "tcp"
    cidr_blocks = ["10.0.0.0/16"]
  }
}
