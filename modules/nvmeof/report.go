package nvmeof

import "fmt"

// Action is the kind of a Change.
type Action string

// What a Change can be.
const (
	ActionCreate     Action = "create"     // an object was made
	ActionDelete     Action = "delete"     // an object was removed
	ActionSet        Action = "set"        // an attribute was written
	ActionEnable     Action = "enable"     // a namespace was enabled
	ActionDisable    Action = "disable"    // a namespace was disabled and drained
	ActionLink       Action = "link"       // a host was admitted or a listener attached
	ActionUnlink     Action = "unlink"     // a host was taken off or a listener detached
	ActionRevalidate Action = "revalidate" // the size of a namespace's device was taken anew
)

// Change is one thing that a call did to the target.
type Change struct {
	Action Action `json:"action"`
	// Object is the target's own name for what changed; for the kernel its
	// path below the nvmet directory.
	Object string `json:"object"`
	// From and To are the value before and after, for ActionSet.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

// String returns the change as one line.
func (c Change) String() string {
	if c.Action == ActionSet {
		return fmt.Sprintf("%s %s: %q -> %q", c.Action, c.Object, c.From, c.To)
	}
	return fmt.Sprintf("%s %s", c.Action, c.Object)
}

// Report is what a call changed, in order. After an error it lists what was
// done before it, and is empty if the call was abandoned in the kernel.
type Report struct {
	// Created tells that the subsystem did not exist before.
	Created bool `json:"created,omitempty"`
	// Changes are all effects on the target.
	Changes []Change `json:"changes,omitempty"`
	// Fenced is the evidence about hosts that Ensure fenced, nil if none.
	Fenced *Evidence `json:"fenced,omitempty"`
}

// Changed tells whether anything had to be done.
func (r Report) Changed() bool { return len(r.Changes) > 0 }

// Repairs returns how many changes were made to a subsystem that existed.
func (r Report) Repairs() int {
	if r.Created {
		return 0
	}
	return len(r.Changes)
}
