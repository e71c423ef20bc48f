package nvmeoftest

import (
	"errors"
	"fmt"
	"slices"
)

// ErrKilled is what every operation answers after the moment set by KillAt, as
// if the process that uses the kernel no longer existed.
var ErrKilled = errors.New("nvmeoftest: killed")

// hooks count the effects (mkdir, rmdir, write, symlink, unlink) and decide
// which of them fail.
type hooks struct {
	trace  []string
	count  int
	failAt int
	fail   error
	killAt int
	after  bool // the kill comes after the effect, before its answer
	killed bool
}

func (h *hooks) alive() error {
	if h.killed {
		return ErrKilled
	}
	return nil
}

// next is called before each effect; an error means that it does not happen.
func (h *hooks) next() error {
	if h.killed {
		return ErrKilled
	}
	h.count++
	switch h.count {
	case h.killAt:
		h.killed = true
		if h.after {
			return nil
		}
		return ErrKilled
	case h.failAt:
		return h.fail
	}
	return nil
}

// effect runs one change of the configuration. While another one is inside a
// drain it waits, as the kernel does (nvmet_config_sem).
func (k *Kernel) effect(op, p, value string, do func() error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for k.draining {
		k.wake.Wait()
	}
	if err := k.hooks.next(); err != nil {
		return pathError(op, p, err)
	}
	line := op + " " + p
	if value != "" {
		line += " " + value
	}
	if err := do(); err != nil {
		return pathError(op, p, err)
	}
	k.hooks.trace = append(k.hooks.trace, line)
	return pathError(op, p, k.hooks.alive())
}

// FailAt makes the n-th effect from now (1 is the next) answer err and change
// nothing.
func (k *Kernel) FailAt(n int, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.hooks.failAt, k.hooks.fail = k.hooks.count+n, err
}

// KillAt ends the caller before the n-th effect from now: it and everything
// after it, reads too, answer ErrKilled until Revive.
func (k *Kernel) KillAt(n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.hooks.killAt, k.hooks.after = k.hooks.count+n, false
}

// KillAfter is KillAt, but the n-th effect still happens: the caller never learns
// what became of it.
func (k *Kernel) KillAfter(n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.hooks.killAt, k.hooks.after = k.hooks.count+n, true
}

// Revive lets a new caller in after KillAt, and tells whether the moment had
// come.
func (k *Kernel) Revive() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	was := k.hooks.killed
	k.hooks.killed, k.hooks.killAt = false, 0
	return was
}

// Effects returns how many effects were tried so far.
func (k *Kernel) Effects() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.hooks.count
}

// Trace returns the effects that the kernel carried out since the last call,
// one line each: "mkdir PATH", "write PATH VALUE", "symlink LINK TARGET",
// "unlink PATH", "rmdir PATH".
func (k *Kernel) Trace() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	t := k.hooks.trace
	k.hooks.trace = nil
	return t
}

// Dump returns the whole configuration, one line for each directory, readable
// attribute and link, sorted: what two kernels have in common they dump alike.
func (k *Kernel) Dump() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return dump(k.root, "", nil)
}

func dump(d *dir, prefix string, lines []string) []string {
	for _, name := range d.names() {
		p := prefix + name
		if child := d.dirs[name]; child != nil {
			lines = dump(child, p+"/", append(lines, p+"/"))
		} else if to := d.links[name]; to != nil {
			lines = append(lines, p+" -> "+to.path())
		} else if a := d.attrs[name]; a.show != nil {
			lines = append(lines, p+" = "+a.show())
		}
	}
	return lines
}

// Snapshot is Dump and what is not configuration: connections, writes in flight
// and what is on the media. Two kernels with equal snapshots behave alike, but for
// the numbers that they give to controllers.
func (k *Kernel) Snapshot() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	lines := dump(k.root, "", nil)
	for _, c := range k.connections {
		now := k.root.dirs["subsystems"].dirs[c.sub.dir.name] == c.sub.dir
		lines = append(lines, fmt.Sprintf("connection of %s: present subsystem %t, ended %t, socket %v", c.host, now, c.ended, c.socket))
	}
	for _, c := range k.inflight {
		lines = append(lines, fmt.Sprintf("in flight to %s: %v", c.device.path, c.write))
	}
	for _, d := range k.devices {
		if len(d.writes) > 0 {
			lines = append(lines, fmt.Sprintf("on %s: %v", d.path, d.writes))
		}
	}
	slices.Sort(lines)
	return lines
}
