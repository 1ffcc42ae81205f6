"""What every room uses: problems, arrays, replications, random streams, checks, files."""
