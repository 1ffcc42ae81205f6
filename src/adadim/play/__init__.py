"""What plays a learner: a problem whose truth is known (`simulate`), and somebody's log (`evaluation`)."""
