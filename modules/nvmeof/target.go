package nvmeof

import (
	"context"
	"time"
)

// Target exports subsystems. All methods may be called from many goroutines;
// an implementation serialises what must be serialised. All waits end with the
// context: a call whose context ends returns an error although the kernel may
// still be busy with its last step, and the next call waits for that step.
type Target interface {
	// Ensure makes the target's subsystem want.NQN equal to want, and reports
	// what it had to change: nothing, when all was right. A host that is not
	// in want.AllowedHosts is fenced as in Revoke before any new host is
	// admitted. A call that failed or was killed is finished by the next one.
	Ensure(ctx context.Context, want Subsystem) (Report, error)

	// EnsureAll is Ensure for many subsystems, as after a reboot of the target,
	// when their hosts are trying to reconnect. First all are made but for the
	// listeners that they do not have yet, then these are opened, one right after
	// the other. Linux hosts (since 6.10) that reach an address and do not find
	// their subsystem there give it up for ever, whatever their ctrl_loss_tmo: as
	// long as nothing listens at all, they go on trying. Making one takes at most
	// each: a device that hangs keeps no other subsystem from its hosts. The errors
	// are in the order of want, nil where all went well.
	EnsureAll(ctx context.Context, each time.Duration, want []Subsystem) []error

	// Inspect reads one subsystem. It answers ErrNotFound if there is none.
	Inspect(ctx context.Context, nqn string) (State, error)

	// List reads all subsystems, sorted by NQN, in one pass. It is a sequence
	// of reads, not a snapshot: a subsystem that changes meanwhile may be seen
	// half way.
	List(ctx context.Context) ([]State, error)

	// Remove drains the namespaces and takes the subsystem away, with the
	// listeners that nothing uses any more, and reads back that it is gone.
	// Removing what does not exist is a success that changed nothing.
	Remove(ctx context.Context, nqn string) (Report, error)

	// Revoke takes the host from the subsystem's allow-list and fences it:
	// when Revoke answers nil, no write of that host can reach the medium any
	// more, and what was acknowledged to it is with the device. Other hosts of
	// the subsystem may be interrupted, and then reconnect.
	//
	// Revoking a host that is not on the list fences all the same, because an
	// earlier call may have died after it took the host off: callers keep
	// "must fence" durable and call again until nil. If the subsystem does not
	// exist, the evidence says so and the error is nil; a call that died may have
	// left it so, and Ensure makes it again. Namespaces that Revoke found
	// disabled stay disabled; Ensure enables them.
	Revoke(ctx context.Context, nqn, hostNQN string) (Evidence, error)

	// Revalidate makes the target take the size of the namespace's device anew
	// and tell the hosts, which stay connected: without it they never see that
	// a device has grown. When it answers nil, the target serves the size that
	// the device had during the call. Repeating it is harmless. It answers
	// ErrNotFound if the subsystem, or an enabled namespace of that ID, does
	// not exist.
	Revalidate(ctx context.Context, nqn string, nsid uint32) error
}
