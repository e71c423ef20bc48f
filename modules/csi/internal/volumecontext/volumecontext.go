// Package volumecontext is the content of the CSI volume context: what a
// StorageClass says about how a node uses a volume. The controller writes it
// into the PersistentVolume, the node reads it from there, and both read it
// with the same grammar, because anybody who may make a PersistentVolume may
// write what he likes into one (known fault SE4).
package volumecontext

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/distort-io/distort/modules/csi/internal/initiator"
	"github.com/distort-io/distort/modules/csi/internal/mkfsoptions"
)

// Keys of the volume context, which are also StorageClass parameters. The
// ranges of the connection parameters are those of initiator.Params.Validate.
const (
	// KeyCtrlLossTimeout is for how many seconds the kernel tries to connect again,
	// -1 to 86400; -1, the default, is for ever.
	KeyCtrlLossTimeout = "ctrl-loss-tmo"
	// KeyReconnectDelay is how many seconds are between two attempts, 1 to 3600;
	// default 10.
	KeyReconnectDelay = "reconnect-delay"
	// KeyKeepAliveTimeout is after how many seconds without an answer a connection is
	// lost, 1 to 3600; default the kernel's.
	KeyKeepAliveTimeout = "keep-alive-tmo"
	// KeyFastIOFailTimeout is after how many seconds without a connection I/O fails,
	// -1 to 86400 and not above ctrl-loss-tmo; -1, the default, is never.
	KeyFastIOFailTimeout = "fast-io-fail-tmo"
	// KeyIOQueues is how many queues a connection has, 1 to 1024; default one for each
	// CPU, up to 8.
	KeyIOQueues = "nr-io-queues"
	// KeyQueueSize is how many commands a queue holds, 16 to 1024; default the
	// kernel's.
	KeyQueueSize = "queue-size"
	// KeyMkfsOptions are options of mkfs, from a closed list for each filesystem
	// (package mkfsoptions).
	KeyMkfsOptions = "mkfs-options"
	// KeyCheckFilesystem "true" has the filesystem checked for damage before it
	// is mounted on a node. A damaged one is refused, never repaired.
	KeyCheckFilesystem = "check-filesystem"
)

// ErrInvalid: a value or key of the context breaks a rule.
var ErrInvalid = errors.New("invalid volume context")

// foreign are the prefixes of keys that Kubernetes adds: the pod's identity by
// kubelet, the provisioner's by external-provisioner.
var foreign = []string{"csi.storage.k8s.io/", "storage.kubernetes.io/"}

// Context is the volume context as values.
type Context struct {
	Connection initiator.Params
	// MkfsOptions is the text of KeyMkfsOptions.
	MkfsOptions string
	// CheckFilesystem is KeyCheckFilesystem.
	CheckFilesystem bool
}

// Keys lists every key that Decode knows.
func Keys() []string {
	var c Context
	return append(slices.Sorted(maps.Keys(c.numbers())), KeyMkfsOptions, KeyCheckFilesystem)
}

func (c *Context) numbers() map[string]**int {
	return map[string]**int{
		KeyCtrlLossTimeout:   &c.Connection.CtrlLossTimeout,
		KeyReconnectDelay:    &c.Connection.ReconnectDelay,
		KeyKeepAliveTimeout:  &c.Connection.KeepAliveTimeout,
		KeyFastIOFailTimeout: &c.Connection.FastIOFailTimeout,
		KeyIOQueues:          &c.Connection.IOQueues,
		KeyQueueSize:         &c.Connection.QueueSize,
	}
}

// Decode reads a volume context. MkfsOptions is checked by the caller, who
// knows the filesystem. Its errors are ErrInvalid and name key, value and rule.
func Decode(values map[string]string) (Context, error) {
	var c Context
	numbers := c.numbers()
	for _, key := range slices.Sorted(maps.Keys(values)) {
		value := values[key]
		field, isNumber := numbers[key]
		switch {
		case isNumber:
			n, err := strconv.Atoi(value)
			if err != nil || strconv.Itoa(n) != value {
				return Context{}, fmt.Errorf("%w: %s %q is not a whole number", ErrInvalid, key, clip(value))
			}
			*field = &n
		case key == KeyMkfsOptions:
			c.MkfsOptions = value
		case key == KeyCheckFilesystem:
			if value != "true" && value != "false" {
				return Context{}, fmt.Errorf("%w: %s %q, want \"true\" or \"false\"", ErrInvalid, key, clip(value))
			}
			c.CheckFilesystem = value == "true"
		case slices.ContainsFunc(foreign, func(p string) bool { return strings.HasPrefix(key, p) }):
		default:
			return Context{}, fmt.Errorf("%w: unknown key %q", ErrInvalid, clip(key))
		}
	}
	if err := c.Connection.Validate(); err != nil {
		return Context{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return c, nil
}

// MkfsArguments are the options as arguments for the mkfs of a filesystem.
func (c Context) MkfsArguments(filesystem string) ([]string, error) {
	arguments, err := mkfsoptions.Parse(filesystem, c.MkfsOptions)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrInvalid, KeyMkfsOptions, err)
	}
	return arguments, nil
}

// Encode is the inverse of Decode; what is not set is absent.
func (c Context) Encode() map[string]string {
	values := map[string]string{}
	for key, field := range c.numbers() {
		if *field != nil {
			values[key] = strconv.Itoa(**field)
		}
	}
	if c.MkfsOptions != "" {
		values[KeyMkfsOptions] = c.MkfsOptions
	}
	if c.CheckFilesystem {
		values[KeyCheckFilesystem] = "true"
	}
	return values
}

// clip keeps messages short whatever the caller sent.
func clip(s string) string {
	const limit = 64
	if len(s) <= limit {
		return s
	}
	return s[:limit] + "…"
}
