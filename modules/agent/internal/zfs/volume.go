package zfs

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The datasets that hold the zvols of DISTORT, below the pool.
const (
	root   = "/distort"
	blocks = root + "/block"
)

// Spec is a zvol that should exist.
type Spec struct {
	// ID names it (identity.ExternalID).
	ID string
	// UID of the object that it belongs to.
	UID string
	// SizeBytes is a multiple of capacity.Unit.
	SizeBytes int64
	// BlockSize is its volblocksize in bytes; 0 means ZFS's default.
	BlockSize int32
	// Compression is the property of that name; "" means that of the pool.
	Compression string
}

// Volume is a zvol that exists.
type Volume struct {
	// Dataset is its full name.
	Dataset string
	// GUID is what ZFS knows it by, for its whole life.
	GUID string
	// UID of the object that it says it belongs to; "" when it does not say so.
	UID       string
	SizeBytes int64
	BlockSize int64
	// Compression is the property of that name, as ZFS prints it.
	Compression string
}

// Dataset is the name of a zvol on the pool.
func (p Pool) Dataset(id string) string { return p.Name + blocks + "/" + id }

// properties are what is read of a dataset, in this order.
const properties = "type,guid,available,volsize,volblocksize,compression," + UIDProperty

// dataset is one dataset with its properties as ZFS prints them.
type dataset struct {
	name   string
	values map[string]string
}

// get reads datasets by `zfs get`.
func (m *Manager) get(ctx context.Context, args ...string) ([]dataset, error) {
	lines, err := m.run(ctx, "zfs", append([]string{"get", "-Hp", "-o", "name,property,value,source"}, args...)...)
	if err != nil {
		return nil, err
	}
	var out []dataset
	for _, line := range lines {
		f, err := fields(line, 4)
		if err != nil {
			return nil, err
		}
		if len(out) == 0 || out[len(out)-1].name != f[0] {
			out = append(out, dataset{name: f[0], values: map[string]string{}})
		}
		if f[1] == UIDProperty && f[3] != "local" {
			// A parent's property says nothing about the zvol itself.
			f[2] = ""
		}
		out[len(out)-1].values[f[1]] = f[2]
	}
	return out, nil
}

// volume is the dataset as a zvol.
func (d dataset) volume() (Volume, error) {
	v := Volume{Dataset: d.name, GUID: d.values["guid"], UID: d.values[UIDProperty], Compression: d.values["compression"]}
	var err error
	if v.SizeBytes, err = d.number("volsize"); err != nil {
		return Volume{}, err
	}
	v.BlockSize, err = d.number("volblocksize")
	return v, err
}

func (d dataset) number(property string) (int64, error) {
	n, err := strconv.ParseInt(d.values[property], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("property %s of %s is %q, which is not a number", property, d.name, d.values[property])
	}
	return n, nil
}

// find reads one zvol. ErrNotFound: there is none. ErrForeign: there is a dataset
// of that name which does not belong to the object with this UID.
func (m *Manager) find(ctx context.Context, p Pool, id, uid string) (Volume, error) {
	name := p.Dataset(id)
	found, err := m.get(ctx, properties, "--", name)
	if errors.Is(err, ErrNotFound) {
		// So ZFS also says when the whole pool is gone.
		if gone := m.present(ctx, p); gone != nil {
			err = gone
		}
	}
	if err != nil {
		return Volume{}, err
	}
	if len(found) != 1 || found[0].name != name {
		return Volume{}, fmt.Errorf("ZFS answered %+v when it was asked for %s", found, name)
	}
	if t := found[0].values["type"]; t != "volume" {
		return Volume{Dataset: name, GUID: found[0].values["guid"]}, fmt.Errorf("%w: %s is a %s", ErrForeign, name, t)
	}
	v, err := found[0].volume()
	if err != nil {
		return Volume{}, err
	}
	if v.UID != uid {
		return v, fmt.Errorf("%w: property %s of %s is %q, not %q", ErrForeign, UIDProperty, name, v.UID, uid)
	}
	return v, nil
}

// Find returns the zvol of the object with this UID: ErrNotFound, ErrForeign.
func (m *Manager) Find(ctx context.Context, p Pool, id, uid string) (Volume, error) {
	return onPool(ctx, m, p, func(ctx context.Context) (Volume, error) { return m.find(ctx, p, id, uid) })
}

// Sample is one look at a pool.
type Sample struct {
	// FreeBytes is what new volumes can take, quotas considered.
	FreeBytes int64
	// Volumes are the zvols of DISTORT.
	Volumes []Volume
	// Others are the datasets below DISTORT's that are not.
	Others []string
}

// Sample reads all of DISTORT's datasets at once, and how much space is left.
func (m *Manager) Sample(ctx context.Context, p Pool) (Sample, error) {
	s, err := onPool(ctx, m, p, func(ctx context.Context) (Sample, error) { return m.sample(ctx, p) })
	if err != nil {
		return Sample{}, fmt.Errorf("sample pool %s: %w", p, err)
	}
	return s, nil
}

func (m *Manager) sample(ctx context.Context, p Pool) (Sample, error) {
	all, err := m.get(ctx, "-r", "-t", "filesystem,volume", properties, "--", p.Name+root)
	if errors.Is(err, ErrNotFound) {
		// Nothing was ever made on this pool.
		all, err = m.get(ctx, properties, "--", p.Name)
	}
	if err != nil {
		return Sample{}, err
	}
	var s Sample
	for _, d := range all {
		switch name := d.name; {
		case name == p.Name, name == p.Name+root, name == p.Name+blocks:
			// The last of them is the closest to what new volumes are made in.
			if s.FreeBytes, err = d.number("available"); err != nil {
				return Sample{}, err
			}
		case d.values["type"] == "volume" && d.values[UIDProperty] != "" && strings.HasPrefix(name, p.Name+blocks+"/"):
			v, err := d.volume()
			if err != nil {
				return Sample{}, err
			}
			s.Volumes = append(s.Volumes, v)
		default:
			s.Others = append(s.Others, name)
		}
	}
	return s, nil
}
