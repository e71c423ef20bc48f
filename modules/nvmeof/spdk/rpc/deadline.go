package rpc

import "time"

// DefaultDeadline is how long a call waits unless its method is known to take
// longer.
const DefaultDeadline = 15 * time.Second

// deadlines are those of methods that write much or wait for a device.
var deadlines = map[string]time.Duration{
	// They wait for the I/O in flight, as long as the device takes.
	"nvmf_subsystem_remove_ns":   time.Minute,
	"nvmf_delete_subsystem":      time.Minute,
	"nvmf_subsystem_remove_host": 20 * time.Second, // SPDK's own limit is 15 s
	// They write the metadata of a volume, and clear it.
	"bdev_lvol_create":          2 * time.Minute,
	"bdev_lvol_resize":          2 * time.Minute,
	"bdev_lvol_snapshot":        2 * time.Minute,
	"bdev_lvol_clone":           2 * time.Minute,
	"bdev_lvol_delete":          5 * time.Minute,
	"bdev_lvol_grow_lvstore":    2 * time.Minute,
	"bdev_lvol_inflate":         time.Hour,
	"bdev_lvol_decouple_parent": time.Hour,
	// They clear a whole device.
	"bdev_lvol_create_lvstore": 10 * time.Minute,
	"bdev_lvol_delete_lvstore": 10 * time.Minute,
	// They read what is on devices, and load it.
	"bdev_aio_create":             2 * time.Minute,
	"bdev_wait_for_examine":       5 * time.Minute,
	"bdev_nvme_attach_controller": time.Minute,
	"bdev_nvme_detach_controller": time.Minute,
	"framework_start_init":        time.Minute,
	"framework_wait_init":         time.Minute,
}

// Deadline returns how long a call of the method waits for its answer at most.
func Deadline(method string) time.Duration {
	if d, ok := deadlines[method]; ok {
		return d
	}
	return DefaultDeadline
}
