// Package staging keeps one record per volume of what NodeStageVolume did, in
// a directory of the host. It is written before the first side effect (known
// fault PU8) and removed after the last one is undone, so that a killed stage is
// never forgotten. It is a help, not the truth: mount table and sysfs are.
package staging

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/distort-io/distort/modules/csi/internal/initiator"
)

// State is how far a stage came.
type State string

// States.
const (
	// Staging: something may have been done.
	Staging State = "staging"
	// Staged: everything was done.
	Staged State = "staged"
)

// Record is one volume that is or may be staged.
type Record struct {
	// VolumeHandle is the CSI volume ID.
	VolumeHandle string
	// AttachmentID is the lifetime of the attachment that the stage relied on;
	// a publish with another one is refused (design.md §6).
	AttachmentID string
	Identity     initiator.Identity
	StagingPath  string
	// Block is a raw block volume: nothing is mounted at the staging path.
	Block bool
	State State
	// Portals and Params are what the stage connected with, so that paths that
	// were lost or never made can be made later. A record of an older version has
	// no portals.
	Portals []initiator.Portal
	Params  initiator.Params
}

// SameStage tells whether both records are of one stage of one attachment,
// however far it came and wherever the subsystem listened.
func (r Record) SameStage(other Record) bool {
	return r.VolumeHandle == other.VolumeHandle && r.AttachmentID == other.AttachmentID && r.Identity == other.Identity &&
		r.StagingPath == other.StagingPath && r.Block == other.Block
}

// ErrCorrupt: the file is not a record of this version of this volume.
var ErrCorrupt = errors.New("corrupt staging record")

const (
	version  = 1
	dirMode  = 0o700
	fileMode = 0o600
)

// file is the record on disk.
type file struct {
	Version      int    `json:"version"`
	VolumeHandle string `json:"volumeHandle"`
	AttachmentID string `json:"attachmentID"`
	NQN          string `json:"nqn"`
	NSID         uint32 `json:"nsid"`
	UUID         string `json:"uuid"`
	NGUID        string `json:"nguid,omitempty"`
	StagingPath  string `json:"stagingPath"`
	Block        bool   `json:"block"`
	State        State  `json:"state"`

	Portals []string         `json:"portals,omitempty"`
	Params  initiator.Params `json:"params"`
}

// Store keeps records in a directory. Calls for one volume must not overlap.
type Store struct{ dir string }

// New returns a store in dir, which is made when first needed.
func New(dir string) *Store { return &Store{dir: dir} }

// path has nothing of the handle's text in it: no handle can leave the
// directory (known fault SE1).
func (s *Store) path(handle string) string {
	sum := sha256.Sum256([]byte(handle))
	return filepath.Join(s.dir, hex.EncodeToString(sum[:])+".json")
}

// Save writes the record so that a crash leaves the old or the new one.
func (s *Store) Save(r Record) error {
	if err := s.save(r); err != nil {
		return fmt.Errorf("save staging record of %s: %w", r.VolumeHandle, err)
	}
	return nil
}

func (s *Store) save(r Record) error {
	text, err := json.Marshal(file{
		Version: version, VolumeHandle: r.VolumeHandle, AttachmentID: r.AttachmentID,
		NQN: r.Identity.NQN, NSID: r.Identity.NSID, UUID: r.Identity.UUID, NGUID: r.Identity.NGUID,
		StagingPath: r.StagingPath, Block: r.Block, State: r.State, Portals: initiator.PortalTexts(r.Portals), Params: r.Params,
	})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.dir, dirMode); err != nil {
		return err
	}
	path := s.path(r.VolumeHandle)
	aside := path + ".new"
	f, err := os.OpenFile(aside, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, fileMode)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(aside, path); err != nil {
		return err
	}
	return s.syncDir()
}

func (s *Store) syncDir() error {
	d, err := os.Open(s.dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Load returns the volume's record, false when it has none.
func (s *Store) Load(handle string) (Record, bool, error) {
	r, err := read(s.path(handle), handle)
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, false, nil
	}
	return r, err == nil, err
}

// List returns every record that can be read; the errors of the others are
// joined.
func (s *Store) List() ([]Record, error) {
	paths, err := filepath.Glob(filepath.Join(s.dir, "*.json"))
	failures := []error{err}
	var records []Record
	for _, path := range paths {
		r, err := read(path, "")
		if err == nil {
			records = append(records, r)
		} else if !errors.Is(err, fs.ErrNotExist) {
			failures = append(failures, err)
		}
	}
	return records, errors.Join(failures...)
}

// read reads one file; the handle, unless empty, must be its volume's.
func read(path, handle string) (Record, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Record{}, fmt.Errorf("load staging record: %w", err)
	}
	var f file
	err = json.Unmarshal(text, &f)
	of := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s of %q: "+format, append([]any{ErrCorrupt, path, f.VolumeHandle}, args...)...)
	}
	switch {
	case err != nil:
		return Record{}, of("%w", err)
	case f.Version != version:
		return Record{}, of("version %d, want %d", f.Version, version)
	case handle != "" && f.VolumeHandle != handle:
		return Record{}, of("should be of %q", handle)
	case f.State != Staging && f.State != Staged:
		return Record{}, of("state %q", f.State)
	}
	portals, err := initiator.ParsePortals(f.Portals)
	if err != nil {
		return Record{}, of("%w", err)
	}
	return Record{
		VolumeHandle: f.VolumeHandle, AttachmentID: f.AttachmentID,
		Identity:    initiator.Identity{NQN: f.NQN, NSID: f.NSID, UUID: f.UUID, NGUID: f.NGUID},
		StagingPath: f.StagingPath, Block: f.Block, State: f.State, Portals: portals, Params: f.Params,
	}, nil
}

// Delete removes the volume's record; none is success.
func (s *Store) Delete(handle string) error {
	err := os.Remove(s.path(handle))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = s.syncDir()
	}
	if err != nil {
		return fmt.Errorf("delete staging record of %s: %w", handle, err)
	}
	return nil
}
