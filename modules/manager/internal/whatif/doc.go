// Package whatif foretells what maintenance does to volumes: which are affected,
// which pods notice and how, and what would refuse.
package whatif
