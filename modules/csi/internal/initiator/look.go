package initiator

import "fmt"

// Path is one connection of a subsystem, as sysfs shows it.
type Path struct {
	Controller string
	Portal     Portal
	// State is the kernel's word, for example live or connecting.
	State string
}

// Live tells whether I/O can take the path.
func (p Path) Live() bool { return p.State == stateLive }

// String is for messages.
func (p Path) String() string { return fmt.Sprintf("%s %s %s", p.Controller, p.Portal, p.State) }

// Look reads sysfs once: the device that has the identity and the paths of its
// subsystem, those that are going away left out. Without a device the error
// says why (*NotFoundError, ErrAmbiguous); the paths are there nevertheless. It
// sends nothing and cannot hang.
func (i *Initiator) Look(id Identity) (Device, []Path, error) {
	device, controllers, err := i.look(id)
	return device, pathsOf(controllers), err
}

// Paths lists the paths of every subsystem that this host NQN is connected to.
func (i *Initiator) Paths(hostNQN string) ([]Path, error) {
	list, err := i.sysfs.controllers("")
	if err != nil {
		return nil, fmt.Errorf("list controllers: %w", err)
	}
	var ours []controller
	for _, c := range list {
		if c.hostNQN == hostNQN {
			ours = append(ours, c)
		}
	}
	return pathsOf(ours), nil
}

func pathsOf(controllers []controller) []Path {
	var paths []Path
	for _, c := range controllers {
		if !c.goingAway() && c.state != "" {
			paths = append(paths, Path{Controller: c.name, Portal: Portal{Transport(c.transport), c.address, c.port}, State: c.state})
		}
	}
	return paths
}
