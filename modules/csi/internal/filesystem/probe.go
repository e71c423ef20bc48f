package filesystem

import (
	"context"
	"fmt"
	"strings"

	"github.com/distort-io/distort/modules/csi/internal/command"
	"github.com/distort-io/distort/modules/csi/internal/detach"
)

// Exit codes of `blkid -p` (blkid(8), "EXIT STATUS").
const (
	blkidNothing   = 2 // nothing recognised, or it could not be read
	blkidAmbiguous = 8 // more than one signature
)

// Probe tells what a device holds. Any doubt is an error: nothing may be
// concluded from a device that could not be read.
func (h *Host) Probe(ctx context.Context, device string) (Content, error) {
	return detach.Join(ctx, &h.calls, "probe "+device, func() (Content, error) { return h.probe(ctx, device) })
}

func (h *Host) probe(ctx context.Context, device string) (Content, error) {
	out, err := h.runner.Run(ctx, "blkid", "-p", "-o", "export", "--", device)
	code, exited := command.ExitCode(err)
	switch {
	case err == nil:
		return parseBlkid(string(out)), nil
	case exited && code == blkidNothing:
	case exited && code == blkidAmbiguous:
		return Content{Recognised: true, Description: "more than one signature (blkid exit code 8)"}, nil
	default:
		return Content{}, fmt.Errorf("probe %s: %w", device, err)
	}
	at, err := firstNonZero(h.devices, device)
	if err != nil {
		return Content{}, fmt.Errorf("probe %s: %w", device, err)
	}
	if at >= 0 {
		return Content{Description: fmt.Sprintf("data at byte %d, no signature that blkid knows", at)}, nil
	}
	return Content{Blank: true, Description: "nothing"}, nil
}

// parseBlkid reads the KEY=value lines of `blkid -o export`. Its caller knows
// that something was recognised.
func parseBlkid(out string) Content {
	values := map[string]string{}
	var all []string
	for line := range strings.Lines(out) {
		key, value, found := strings.Cut(strings.TrimSpace(line), "=")
		if found && key != "DEVNAME" {
			values[key] = value
			all = append(all, key+"="+value)
		}
	}
	c := Content{Recognised: true, Description: strings.Join(all, " ")}
	if values["USAGE"] == "filesystem" || values["USAGE"] == "" {
		c.Type, c.UUID = values["TYPE"], values["UUID"]
	}
	if c.Description == "" {
		c.Description = "a signature that blkid does not name"
	}
	return c
}
