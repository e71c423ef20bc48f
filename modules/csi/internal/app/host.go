package app

import (
	"path/filepath"

	"github.com/go-logr/logr"

	"github.com/distort-io/distort/modules/csi/internal/command"
	"github.com/distort-io/distort/modules/csi/internal/filesystem"
	"github.com/distort-io/distort/modules/csi/internal/initiator"
	"github.com/distort-io/distort/modules/csi/internal/node"
	"github.com/distort-io/distort/modules/csi/internal/staging"
)

// Host is the machine that the Node service works on.
type Host struct {
	Initiator   node.Initiator
	Filesystems node.Filesystems
	Records     node.Records
	// Commands loads kernel modules.
	Commands command.Runner
}

// LinuxHost is this machine.
func LinuxHost(o Options, log logr.Logger) Host {
	return Host{
		Initiator: initiator.New(initiator.Options{
			MaxConnects: o.MaxConnects,
			Warn:        func(err error) { log.Error(err, "a connection is not as it should be") },
		}),
		Filesystems: filesystem.New(filesystem.Options{}),
		Records:     staging.New(filepath.Join(o.pluginDir(), "staged")),
		Commands:    command.Exec{},
	}
}
