package kernel

// DefaultRoot is where the kernel's nvmet directory is when configfs is
// mounted in its usual place.
const DefaultRoot = "/sys/kernel/config/nvmet"

// DebugRoot is where the kernel shows the target's controllers when debugfs is
// mounted in its usual place.
const DebugRoot = "/sys/kernel/debug/nvmet"

// DebugFS is what the target reads from debugfs, relative to DebugRoot; OS and
// nvmeoftest.Kernel.Debug have it. Every path is relative to its root, with
// slashes and without "..", and errors unwrap to the errno of the kernel.
type DebugFS interface {
	// ReadDir returns the names in a directory, in any order.
	ReadDir(path string) ([]string, error)
	// ReadFile returns an attribute as the kernel shows it.
	ReadFile(path string) ([]byte, error)
}

// FS is all that the target needs from configfs, below the nvmet directory
// ("subsystems/NQN/enable"), and from the devices it exports.
// nvmeoftest.Kernel implements it in memory.
type FS interface {
	DebugFS // for the same reads
	// Mkdir makes an object.
	Mkdir(path string) error
	// Rmdir removes an object.
	Rmdir(path string) error
	// WriteFile stores an attribute that exists, in one write, and never
	// creates a file.
	WriteFile(path string, data []byte) error
	// Symlink links the object at target (also relative to the nvmet
	// directory) into another object under the path link.
	Symlink(target, link string) error
	// Readlink returns the text of a link. Only its last element says which
	// object is meant; the name of the link itself may be anything.
	Readlink(path string) (string, error)
	// Remove removes a link.
	Remove(path string) error
	// AwaitDevice reads the first block of a device, past all caches, and
	// returns when the device has answered; an error is an answer too. The path
	// is the namespace's.
	AwaitDevice(path string)
}
