"""InterPodAffinity: keeps pods near to, or away from, pods that their terms select."""
