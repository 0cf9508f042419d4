"""What infra/ holds is linted and rendered by the tools that would use it, and its processes are started."""
