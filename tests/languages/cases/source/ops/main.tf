terraform {
  required_version = ">= 1.5"

  backend "s3" {
    bucket = "state"
  }
}

provider "aws" {
  region = var.region
}

variable "region" {
  type    = string
  default = "eu-central-1"
}

locals {
  name = "shop"
  tags = {
    app = local.name
  }
}

# Where the pictures are.
resource "aws_s3_bucket" "pictures" {
  bucket = "${local.name}-pictures"

  lifecycle {
    prevent_destroy = true
  }

  dynamic "rule" {
    for_each = var.rules
    content {
      id = rule.value
    }
  }
}

data "aws_caller_identity" "current" {}

module "vpc" {
  source = "./vpc"
}

output "bucket" {
  value = aws_s3_bucket.pictures.id
}
