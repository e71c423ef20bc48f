package supervisor

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/spdk/rpc"
)

// Config is a target to be run.
type Config struct {
	// Program is the path of nvmf_tgt.
	Program string
	// Socket is the path of its RPC server, at most 107 bytes.
	Socket string
	// CoreMask are the cores that it polls on, in hexadecimal such as 0x3.
	CoreMask string
	// MemoryMiB is how much memory it takes at its start; 0 leaves that to SPDK.
	MemoryMiB int
	// Args are more arguments, such as --no-huge or --interrupt-mode.
	Args []string
	// Options are called in this order before the framework is initialised.
	Options []Option
	// Started is called each time a target is ready, with its client. It may take
	// long; its context ends when the target does.
	Started func(context.Context, *rpc.Client)
	// Log takes what the target prints.
	Log io.Writer
	// Ready is how long a start may take; the default is 30 s.
	Ready time.Duration
	// Stop is how long the target may take to end after SIGTERM, as it waits for I/O
	// in flight; then it is killed. The default is 30 s.
	Stop time.Duration
	// FirstPause and LongestPause are those between two starts, which double; the
	// defaults are 1 s and 1 min.
	FirstPause, LongestPause time.Duration
}

// Option is one call with its parameters.
type Option struct {
	Method string
	Params any
}

const maxSocket = 107 // sockaddr_un, without the terminator

// check refuses what nvmf_tgt refuses only after a while, or never.
func (c *Config) check() error {
	refuse := func(field, value, rule string) error {
		return &nvmeof.FieldError{Field: field, Value: value, Rule: rule}
	}
	switch {
	case !filepath.IsAbs(c.Program):
		return refuse("program", c.Program, "must be an absolute path")
	case !filepath.IsAbs(c.Socket) || len(c.Socket) > maxSocket:
		return refuse("socket", c.Socket, "must be an absolute path of at most 107 bytes")
	case c.MemoryMiB < 0:
		return refuse("memoryMiB", strconv.Itoa(c.MemoryMiB), "must not be negative")
	}
	if _, err := Cores(c.CoreMask); err != nil {
		return refuse("coreMask", c.CoreMask, "must be a hexadecimal number above zero, such as 0x3")
	}
	for _, d := range []struct {
		value    *time.Duration
		standard time.Duration
	}{{&c.Ready, 30 * time.Second}, {&c.Stop, 30 * time.Second}, {&c.FirstPause, time.Second}, {&c.LongestPause, time.Minute}} {
		if *d.value == 0 {
			*d.value = d.standard
		}
	}
	if c.Log == nil {
		c.Log = io.Discard
	}
	if c.Started == nil {
		c.Started = func(context.Context, *rpc.Client) {}
	}
	return nil
}

// clear refuses a file at the socket's path that is none: nvmf_tgt would delete it.
func (c *Config) clear() error {
	info, err := os.Lstat(c.Socket)
	if err == nil && info.Mode().Type() != fs.ModeSocket {
		return &nvmeof.FieldError{Field: "socket", Value: c.Socket, Rule: "must not be a file of another kind, which nvmf_tgt would delete"}
	}
	return nil
}

func (c *Config) args() []string {
	args := []string{"-r", c.Socket, "-m", c.CoreMask, "--wait-for-rpc"}
	if c.MemoryMiB > 0 {
		args = append(args, "-s", strconv.Itoa(c.MemoryMiB))
	}
	return append(args, c.Args...)
}

// Cores returns the numbers of the cores in a mask such as 0x3.
func Cores(mask string) (map[int]bool, error) {
	digits, ok := strings.CutPrefix(strings.ToLower(mask), "0x")
	n, valid := new(big.Int).SetString(digits, 16)
	if !ok || !valid || n.Sign() <= 0 {
		return nil, fmt.Errorf("core mask %q", mask)
	}
	out := map[int]bool{}
	for i := range n.BitLen() {
		if n.Bit(i) == 1 {
			out[i] = true
		}
	}
	return out, nil
}
