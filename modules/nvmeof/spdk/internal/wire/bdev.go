package wire

import (
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"

	"github.com/distort-io/distort/modules/nvmeof/spdk/rpc"
)

// Bdev is a block device of SPDK's.
type Bdev struct {
	Name      string   `json:"name"`
	Aliases   []string `json:"aliases"`
	UUID      string   `json:"uuid"`
	BlockSize uint64   `json:"block_size"`
	NumBlocks uint64   `json:"num_blocks"`
	// Claimed tells that something has it: an export, an lvstore.
	Claimed bool   `json:"claimed"`
	Limits  Limits `json:"assigned_rate_limits"`
	Driver  struct {
		Lvol *Lvol     `json:"lvol"`
		AIO  *struct{} `json:"aio"`
		NVMe []NVMe    `json:"nvme"` // one for each path
	} `json:"driver_specific"`
}

// Limits are the rate limits of a bdev; 0 is none.
type Limits struct {
	// RWIOs are reads and writes in a second.
	RWIOs uint64 `json:"rw_ios_per_sec"`
	// RWMiB, RMiB and WMiB are MiB in a second: in both directions, read, written.
	RWMiB uint64 `json:"rw_mbytes_per_sec"`
	RMiB  uint64 `json:"r_mbytes_per_sec"`
	WMiB  uint64 `json:"w_mbytes_per_sec"`
}

// Lvol is what a bdev says of itself if it is a logical volume.
type Lvol struct {
	StoreUUID    string `json:"lvol_store_uuid"`
	Thin         bool   `json:"thin_provision"`
	Snapshot     bool   `json:"snapshot"`
	BaseSnapshot string `json:"base_snapshot"`
}

// NVMe is what a bdev says of itself if it is a namespace of a drive.
type NVMe struct {
	Address    string `json:"pci_address"`
	Controller struct {
		Serial string `json:"serial_number"`
		Model  string `json:"model_number"`
	} `json:"ctrlr_data"`
	Namespace struct {
		ID uint32 `json:"id"`
	} `json:"ns_data"`
}

// Size returns the size in bytes.
func (b Bdev) Size() uint64 { return b.BlockSize * b.NumBlocks }

// Alias returns the part of the alias "store/name" behind the store, if the bdev
// is a logical volume.
func (b Bdev) Alias() string {
	if len(b.Aliases) == 0 {
		return ""
	}
	_, name, _ := strings.Cut(b.Aliases[0], "/")
	return name
}

// Bdevs reads all bdevs.
func Bdevs(ctx context.Context, client *rpc.Client) ([]Bdev, error) {
	var all []Bdev
	err := client.Call(ctx, "bdev_get_bdevs", nil, &all)
	return all, err
}

// FindBdev reads the bdev with this name, alias or UUID; nil if there is none.
func FindBdev(ctx context.Context, client *rpc.Client, name string) (*Bdev, error) {
	var found []Bdev
	err := client.Call(ctx, "bdev_get_bdevs", struct {
		Name string `json:"name"`
	}{name}, &found)
	switch {
	case errors.Is(err, syscall.ENODEV):
		return nil, nil
	case err != nil:
		return nil, err
	}
	if i := slices.IndexFunc(found, func(b Bdev) bool {
		return b.Name == name || b.UUID == name || slices.Contains(b.Aliases, name)
	}); i >= 0 {
		return &found[i], nil
	}
	return nil, nil
}
