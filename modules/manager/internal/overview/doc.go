// Package overview makes the picture of where storage is: nodes with their drives
// and pools, and what is taken of each.
package overview
