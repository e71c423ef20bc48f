// Package request turns CSI requests of the controller service into plain
// values, or says which rule they break. It is pure: it reads nothing but its
// arguments, and whatever it refuses has had no effect (known fault CV10).
package request
