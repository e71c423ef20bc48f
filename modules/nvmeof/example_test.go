package nvmeof_test

import (
	"context"
	"fmt"
	"log"

	"github.com/distort-io/distort/modules/nvmeof"
	"github.com/distort-io/distort/modules/nvmeof/kernel"
	"github.com/distort-io/distort/modules/nvmeof/nvmeoftest"
)

func ExampleParseListener() {
	l, err := nvmeof.ParseListener("rdma://[fd00::1]:4421")
	fmt.Println(l.Transport, l.Family(), l.Address, l.Port, err)
	_, err = nvmeof.ParseListener("tcp://0.0.0.0:4420")
	fmt.Println(err)
	// Output:
	// rdma ipv6 fd00::1 4421 <nil>
	// listener "tcp://0.0.0.0:4420": address must not be a wildcard
}

// A device is exported to one host, damaged behind the target's back, repaired,
// and taken away from the host again.
func ExampleTarget() {
	ctx := context.Background()
	model := nvmeoftest.NewKernel(nvmeoftest.WithDevices("/dev/sdb"))
	// For the kernel of this machine: kernel.New(kernel.OS(kernel.DefaultRoot)).
	var target nvmeof.Target = kernel.New(model)

	const nqn, host = "nqn.2026-02.com.example:disk1", "nqn.2026-01.com.example:host1"
	listener, err := nvmeof.ParseListener("tcp://10.0.0.1:4420")
	if err != nil {
		log.Fatal(err)
	}
	id := nvmeof.DeriveUUID(nqn, "/dev/sdb")
	want := nvmeof.Subsystem{
		NQN: nqn, Serial: nvmeof.DeriveSerial(nqn),
		Namespaces:   []nvmeof.Namespace{{NSID: 1, DevicePath: "/dev/sdb", UUID: id, NGUID: id.NGUID()}},
		AllowedHosts: []string{host},
		Listeners:    []nvmeof.Listener{listener},
	}
	report, err := target.Ensure(ctx, want)
	fmt.Println("created:", report.Created, err)

	if err := model.Remove("ports/1/subsystems/" + nqn); err != nil {
		log.Fatal(err)
	}
	report, err = target.Ensure(ctx, want)
	fmt.Println("repaired:", report.Changes, err)

	evidence, err := target.Revoke(ctx, nqn, host)
	fmt.Println("fenced:", evidence.Complete(), evidence.AllowedHosts, err)
	// Output:
	// created: true <nil>
	// repaired: [link ports/1/subsystems/nqn.2026-02.com.example:disk1] <nil>
	// fenced: true [] <nil>
}

func ExampleDiff() {
	model := nvmeoftest.NewKernel()
	target := kernel.New(model)
	want := nvmeof.Subsystem{NQN: "nqn.2026-02.com.example:disk1", Serial: "S1"}
	if _, err := target.Ensure(context.Background(), want); err != nil {
		log.Fatal(err)
	}
	states, err := target.List(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	want.AllowedHosts = []string{"nqn.2026-01.com.example:host1"}
	for _, d := range nvmeof.Diff(want, states[0]) {
		fmt.Println(d)
	}
	// Output:
	// allowedHosts: want "nqn.2026-01.com.example:host1", got "absent"
}
