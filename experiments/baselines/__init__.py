"""What Onward is compared with, under the same faults."""
