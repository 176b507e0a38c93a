"""Precision and recall of the code graph, against indexes of compilers and golden answers"""
