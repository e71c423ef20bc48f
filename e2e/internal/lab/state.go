// Package lab starts, finds and stops a whole lab: network, control plane and
// guests. What runs is found again by its identity and by its network
// namespace, so that a lab whose starter was killed can be looked at and
// cleaned up.
package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/distort-io/distort/e2e/internal/process"
)

// stateFile is the record in the lab's directory.
const stateFile = "lab.json"

// ErrNotUp says that no lab is running.
var ErrNotUp = errors.New("no lab is up")

// State is what is recorded of a running lab.
type State struct {
	// Created is when it was started.
	Created time.Time `json:"created"`
	// Artifacts are what it was started from, by preparation step.
	Artifacts map[string]string `json:"artifacts"`
	// Processes by name: components of the control plane, guests, the relay.
	Processes map[string]process.Identity `json:"processes"`
	// Ready is set when the cluster was up as a whole.
	Ready bool `json:"ready"`
}

// record is a State that is saved whenever it changes.
type record struct {
	mutex sync.Mutex
	path  string
	state State
}

func (r *record) change(change func(*State)) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	change(&r.state)
	data, err := json.MarshalIndent(r.state, "", "  ")
	if err != nil {
		return fmt.Errorf("record the lab's state: %w", err)
	}
	temp := r.path + ".new"
	if err := os.WriteFile(temp, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("record the lab's state: %w", err)
	}
	if err := os.Rename(temp, r.path); err != nil {
		return fmt.Errorf("record the lab's state: %w", err)
	}
	return nil
}

// started records a process.
func (r *record) started(name string, id process.Identity) error {
	return r.change(func(s *State) { s.Processes[name] = id })
}

// State reads the record of the lab.
func (l *Lab) State() (State, error) {
	data, err := os.ReadFile(filepath.Join(l.dir, stateFile))
	if errors.Is(err, os.ErrNotExist) {
		return State{}, ErrNotUp
	}
	if err != nil {
		return State{}, fmt.Errorf("read the lab's state: %w", err)
	}
	var state State
	if err := json.Unmarshal(data, &state); err != nil {
		return State{}, fmt.Errorf("read the lab's state: %w", err)
	}
	return state, nil
}
