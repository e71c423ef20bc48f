// Package supervisor starts an nvmf_tgt and keeps it running.
//
// A target that has started has nothing but what is on devices; it is the owner's
// to make the rest again, each time (Config.Started).
package supervisor
