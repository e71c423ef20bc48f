package filesystem

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/distort-io/distort/modules/csi/internal/command"
)

// checkTimeout bounds one check of a filesystem.
const checkTimeout = time.Hour

// Exit codes that mean damage (e2fsck(8), xfs_repair(8)).
const (
	e2fsckUncorrected = 4
	repairDamaged     = 1
)

// Check looks for damage and changes nothing. The device is claimed meanwhile,
// so that nobody can mount it: ErrInUse when somebody has. Damage is ErrDamaged
// with what the program said last.
//
// The filesystem must have been mounted since it was last used: before its
// journal is replayed, every check finds errors. A check outlives a caller whose
// deadline ends, and the next one joins it: it may take longer than any RPC.
func (h *Host) Check(ctx context.Context, device string, t Type) error {
	name, args, damaged, err := checkCommand(device, t)
	if err != nil {
		return err
	}
	return h.calls.Do(ctx, "check "+device, func() (err error) {
		claim, err := h.devices.OpenExclusive(device)
		if errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("%w: check %s: %w", ErrInUse, device, err)
		}
		if err != nil {
			return fmt.Errorf("check %s: %w", device, err)
		}
		defer func() { err = errors.Join(err, claim.Close()) }()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTimeout)
		defer cancel()
		out, err := h.runner.Run(ctx, name, args...)
		var exit *command.ExitError
		if errors.As(err, &exit) && exit.Code&damaged != 0 {
			return fmt.Errorf("%w: %s on %s: %s says: %s", ErrDamaged, t, device, name, lastLines(exit.Stderr+"\n"+string(out)))
		}
		if err != nil {
			return fmt.Errorf("check %s: %w", device, err)
		}
		return nil
	})
}

func checkCommand(device string, t Type) (name string, args []string, damaged int, err error) {
	switch t {
	case Ext4:
		return "e2fsck", []string{"-n", "-f", "--", device}, e2fsckUncorrected, nil
	case XFS:
		return "xfs_repair", []string{"-n", "--", device}, repairDamaged, nil
	}
	return "", nil, 0, fmt.Errorf("%w: filesystem %q cannot be checked, only %s and %s", ErrInvalid, t, Ext4, XFS)
}

// lastLines is the end of what a program wrote, on one line and bounded.
func lastLines(out string) string {
	const limit = 400 // bytes
	text := strings.Join(strings.FieldsFunc(out, func(r rune) bool { return r < ' ' }), "; ")
	if len(text) > limit {
		text = "…" + text[len(text)-limit:]
	}
	return strings.ToValidUTF8(text, "")
}
