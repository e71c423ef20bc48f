// Package guestspec is what the lab tells a guest to be. The host writes it
// into the guest's initial RAM file system; the guest's first process reads it
// and does what it says, in the order of the fields.
package guestspec

import (
	"encoding/json"
	"fmt"
)

// Places that host and guest agree on.
const (
	// Path of the spec in the initial RAM file system.
	Path = "/lab/spec.json"
	// ModuleList names the modules to insert there, one file name a line, and
	// ModuleDir holds them.
	ModuleList = "/lab/modules.order"
	ModuleDir  = "/lab/modules"
	// RunDir is where the guest keeps its program once the real root is mounted.
	RunDir = "/run/lab"
	// Program is that program. By these arguments it takes the guest down, and
	// joins its standard input and output with a Unix socket.
	Program  = RunDir + "/labguest"
	Shutdown = "shutdown"
	Dial     = "dial"
	// NoLogin exists while a host goes down (systemd-user-sessions.service(8)).
	NoLogin = "/run/nologin"
	// ExecPort is the TCP port of the command server (package guestexec).
	ExecPort = 2324
)

// Spec describes one guest.
type Spec struct {
	// Name is the host name.
	Name string `json:"name"`
	// Root is the serial of the virtio disk with the root file system.
	Root string `json:"root"`
	// Mounts are further virtio disks.
	Mounts []Mount `json:"mounts,omitempty"`
	// Binds mount directories of those disks where programs look for them.
	Binds []Bind `json:"binds,omitempty"`
	// Files are written before anything is started.
	Files []File `json:"files,omitempty"`
	// Modules are loaded with what they depend on.
	Modules []string `json:"modules,omitempty"`
	// Sysctls are set below /proc/sys.
	Sysctls []Sysctl `json:"sysctls,omitempty"`
	// Setup are commands run one after the other.
	Setup [][]string `json:"setup,omitempty"`
	// Services are kept running from then on.
	Services []Service `json:"services,omitempty"`
}

// Mount is an ext4 file system on a virtio disk.
type Mount struct {
	Serial   string `json:"serial"`
	Target   string `json:"target"`
	ReadOnly bool   `json:"readOnly,omitempty"`
}

// Bind makes Source visible at Target.
type Bind struct {
	Source string `json:"source"`
	Target string `json:"target"`
}

// File is a file with its content.
type File struct {
	Path    string `json:"path"`
	Mode    uint32 `json:"mode"`
	Content string `json:"content"`
}

// Sysctl is a kernel parameter; Name is its path below /proc/sys.
type Sysctl struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Service is a program that is started again when it ends. Its output goes to
// /var/log/<name>.log.
type Service struct {
	Name string   `json:"name"`
	Args []string `json:"args"`
	Env  []string `json:"env,omitempty"`
	// After names a file that must exist before the start.
	After string `json:"after,omitempty"`
}

// Marshal encodes a spec.
func (s Spec) Marshal() ([]byte, error) { return json.Marshal(s) }

// Unmarshal decodes a spec.
func Unmarshal(data []byte) (Spec, error) {
	var spec Spec
	if err := json.Unmarshal(data, &spec); err != nil {
		return Spec{}, fmt.Errorf("read guest spec: %w", err)
	}
	return spec, nil
}

// LogPath returns where the output of a service goes.
func LogPath(service string) string { return "/var/log/" + service + ".log" }
