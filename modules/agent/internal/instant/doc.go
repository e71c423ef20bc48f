// Package instant is a storage node that answers at once: drives and a target in
// memory, without any of the refusals that volumetest's have. With it in the place of
// hardware, a benchmark measures what the control plane costs by itself. The agent
// never runs on it; tests alone import it.
package instant
