package rpc

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// Version is what spdk_get_version says. SPDK counts by year and month.
type Version struct {
	Major  int    `json:"major"`
	Minor  int    `json:"minor"`
	Patch  int    `json:"patch"`
	Suffix string `json:"suffix"`
}

// AtLeast tells whether it is this release or a later one.
func (v Version) AtLeast(major, minor int) bool {
	return v.Major > major || v.Major == major && v.Minor >= minor
}

// String returns the name of the release, such as v26.05.
func (v Version) String() string { return fmt.Sprintf("v%02d.%02d%s", v.Major, v.Minor, v.Suffix) }

// facts are what is asked of a process once. A process that was restarted may be
// another version, and has another connection.
type facts struct {
	mu      sync.Mutex
	version *Version
	methods []string
}

// Version returns the version of the process that answers now.
func (c *Client) Version(ctx context.Context) (Version, error) {
	conn, err := c.connected(ctx)
	if err != nil {
		return Version{}, fmt.Errorf("version: %w", err)
	}
	conn.facts.mu.Lock()
	defer conn.facts.mu.Unlock()
	if conn.facts.version == nil {
		var v struct {
			Fields Version `json:"fields"`
		}
		if err := c.Call(ctx, "spdk_get_version", nil, &v); err != nil {
			return Version{}, err
		}
		conn.facts.version = &v.Fields
	}
	return *conn.facts.version, nil
}

// Has tells whether the process that answers now knows the method.
func (c *Client) Has(ctx context.Context, method string) (bool, error) {
	conn, err := c.connected(ctx)
	if err != nil {
		return false, fmt.Errorf("methods: %w", err)
	}
	conn.facts.mu.Lock()
	defer conn.facts.mu.Unlock()
	if conn.facts.methods == nil {
		if err := c.Call(ctx, "rpc_get_methods", nil, &conn.facts.methods); err != nil {
			return false, err
		}
	}
	return slices.Contains(conn.facts.methods, method), nil
}
