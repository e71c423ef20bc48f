package nvmeof

// Subsystem is what a target shall export under one NQN. It is complete: what
// it does not list must not exist.
type Subsystem struct {
	// NQN names the subsystem; see ParseNQN.
	NQN string `json:"nqn"`
	// Serial is the serial number that hosts read: 1 to 20 printable ASCII
	// characters, no space at either end. It cannot change once a host has
	// connected.
	Serial string `json:"serial"`
	// Model is the model number that hosts read: at most 40 printable ASCII
	// characters, no space at either end. Empty leaves the target's own.
	Model string `json:"model,omitempty"`
	// Namespaces are the block devices behind the subsystem, all enabled.
	Namespaces []Namespace `json:"namespaces"`
	// AllowedHosts are the NQNs of the hosts that may connect. None means
	// nobody; there is no way to say "any host".
	AllowedHosts []string `json:"allowedHosts"`
	// Listeners are the addresses on which the subsystem can be reached. They
	// are shared among subsystems.
	Listeners []Listener `json:"listeners"`
}

// Namespace is one block device exported as one namespace. UUID and NGUID are
// always pinned: a target that chooses its own chooses another one at each
// rebuild, and hosts then drop the disk.
type Namespace struct {
	// NSID is the namespace identifier, 1 to 0xfffffffe.
	NSID uint32 `json:"nsid"`
	// DevicePath is the absolute, clean path of the device.
	DevicePath string `json:"devicePath"`
	// UUID is the identity by which hosts recognise the data.
	UUID UUID `json:"uuid"`
	// NGUID is the second identity; UUID.NGUID derives one.
	NGUID NGUID `json:"nguid"`
}
