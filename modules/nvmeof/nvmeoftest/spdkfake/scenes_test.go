package spdkfake

import (
	"fmt"

	"github.com/distort-io/distort/modules/nvmeof"
)

const (
	example = "nqn.2026-01.io.example:"
	host1   = example + "host-1"
)

// scenes bring the fake into the state in which a request was recorded, by steps
// that the recordings leave out.
var scenes = map[string]func(*replay){
	"start_time":                func(r *replay) { r.fresh() },
	"lvstore.delete_inuse":      func(r *replay) { r.do("bdev_lvol_delete", `{"name":"lvs0/exp"}`) },
	"live.get_controllers":      func(r *replay) { r.connect("vol-1", host1, "4420") },
	"live.remove_host_under_io": func(r *replay) { r.connect("vol-1", host1, "4420") },
	"live.remove_host_under_io_timeout5000": func(r *replay) {
		r.addHost("vol-1", host1)
		r.connect("vol-1", host1, "4420")
	},
	"bdev_delay_create": func(r *replay) { r.malloc("MD") },
	"live.remove_host_slow_io": func(r *replay) {
		r.export("slow", "4420", "Delay0")
		r.writing("slow", 4)
		r.during = r.fake.Complete
	},
	"live.remove_host_slow_io_timeout500": func(r *replay) {
		r.addHost("slow", host1)
		r.writing("slow", 4)
	},
	"live.remove_host_slow_io_timeout5000": func(r *replay) {
		r.fake.Complete()
		r.addHost("slow", host1)
		r.writing("slow", 4)
		r.during = r.fake.Complete
	},
	"live.allow_any_false_noop": func(r *replay) {
		r.addHost("slow", host1)
		r.writing("slow", 4)
	},
	"live.remove_listener_slow_io": func(r *replay) { r.writing("slow", 4) },
	"live.remove_ns_slow_io": func(r *replay) {
		r.fake.Complete()
		r.listen("slow", "4420")
		r.writing("slow", 4)
		r.during = r.fake.Complete
	},
	"live.qos_slow_io": func(r *replay) {
		r.addNamespace("slow", "Delay0")
		r.writing("slow", 4)
	},
	"live.delete_subsystem_slow_io": func(r *replay) { r.during = r.fake.Complete },
	"live.remove_host_qos_queue": func(r *replay) {
		r.lvol("lvs0", "q1", 64)
		r.lvol("lvs0", "q2", 4)
		r.export("q", "4420", "lvs0/q1")
		r.writing("q", 28)
		r.during = r.fake.Complete
	},
	"live.remove_host_qos_queue_timeout300": func(r *replay) {
		r.addHost("q", host1)
		r.writing("q", 28)
	},
	"live.resize_connected": func(r *replay) {
		r.fake.Complete()
		r.addHost("q", host1)
		r.connect("q", host1, "4420")
	},
	"shrink.exported": func(r *replay) {
		r.lvol("lvs0", "shr", 64)
		r.export("shr", "4420", "lvs0/shr")
	},
	"live.get_controllers_after_kato": func(r *replay) {
		r.export("q", "4420", "lvs0/q2")
		r.do("nvmf_subsystem_remove_host", `{"nqn":"`+example+`q","host":"`+host1+`"}`)
		r.do("nvmf_subsystem_allow_any_host", `{"nqn":"`+example+`q","allow_any_host":true}`)
	},
	"live.allow_any_true_to_false_connected": func(r *replay) { r.connect("q", host1, "4420") },
	"live.get_controllers_two": func(r *replay) {
		r.addHost("q", host1)
		r.fake.hosts = nil
		r.connect("q", host1, "4420")
		r.connect("q", host1, "4420").queues = 3
	},
	"kill9.get_subsystems": func(r *replay) {
		r.fresh()
		r.do("bdev_aio_create", `{"name":"aio0","filename":"/rec/run/aio0.img","block_size":4096}`)
		r.do("bdev_lvol_create_lvstore", `{"bdev_name":"aio0","lvs_name":"lvs0"}`)
		r.lvol("lvs0", "v1", 84)
		r.fake.Restart()
	},
	"kill9.aio_create_other_bs": func(r *replay) { r.do("bdev_aio_delete", `{"name":"other"}`) },
	"kill9.aio_create_again":    func(r *replay) { r.do("bdev_aio_delete", `{"name":"aio0"}`) },
	"dup.aio_create_copy": func(r *replay) {
		copied := *r.fake.files["/rec/run/aio0.img"]
		r.fake.files["/rec/run/copy.img"] = &copied
	},
	"two_processes.first_has_lvs": func(r *replay) { r.lvol("lvs0", "late", 12) },
	"two_processes.second_aio_create": func(r *replay) {
		files, uuids := r.fake.files, r.uuids
		r.fresh()
		r.fake.files, r.uuids = files, uuids
	},
	"waitrpc.get_methods_current": func(r *replay) { r.fresh(WithWaitForRPC()) },
	"conc.add_ns_three": func(r *replay) {
		r.fresh()
		r.tcp()
		for i := range 6 {
			r.malloc(fmt.Sprintf("M%d", i))
		}
		r.do("nvmf_create_subsystem", `{"nqn":"`+example+`c"}`)
		r.do("bdev_aio_create", `{"name":"aio2","filename":"/rec/run/aio2.img","block_size":4096}`)
		r.do("bdev_lvol_create_lvstore", `{"bdev_name":"aio2","lvs_name":"lc"}`)
	},
	"interrupt.remove_listener": func(r *replay) {
		r.fresh()
		r.tcp()
		r.malloc("M")
		r.export("c", "4420", "M")
	},
	"thin.snapshot_when_full": func(r *replay) {
		r.fresh()
		r.tcp()
		r.malloc("M")
		r.do("bdev_lvol_create_lvstore", `{"bdev_name":"M","lvs_name":"lc"}`)
		r.lvol("lc", "thin", 4)
	},
	"slow.changes_on_same_subsystem": func(r *replay) {
		r.fresh()
		r.tcp()
		for _, name := range []string{"D", "M2", "M3"} {
			r.malloc(name)
		}
		r.export("slow", "4420", "D")
		r.writing("slow", 1)
	},
	"slow.bdev_delete_under_io": func(r *replay) { r.during = r.fake.Complete },
	"slow.remove_host_default_timeout": func(r *replay) {
		r.fresh() // the one before is stuck
		r.tcp()
		r.malloc("D")
		r.export("slow", "4420", "D")
		r.writing("slow", 1)
	},
	"slow.get_controllers_later": func(r *replay) { r.fake.Complete() },
	"slow.lvol_delete_under_io": func(r *replay) {
		r.malloc("L")
		r.do("bdev_lvol_create_lvstore", `{"bdev_name":"L","lvs_name":"ld"}`)
		r.lvol("ld", "z", 4)
		r.export("z", "4420", "ld/z")
		r.writing("z", 1)
		r.during = r.fake.Complete
	},
	"spdkhost.get_controllers": func(r *replay) {
		r.malloc("S")
		r.do("bdev_lvol_create_lvstore", `{"bdev_name":"S","lvs_name":"ls"}`)
		r.lvol("ls", "a", 16)
		r.export("s", "4420", "ls/a")
		r.addHost("s", example+"host-s")
		r.connect("s", example+"host-s", "4420").queues = 1
	},
	"spdkhost.get_controllers_perf":        func(r *replay) { r.connect("s", example+"host-s", "4420") },
	"spdkhost.get_controllers_reconnected": func(r *replay) { r.connect("s", example+"host-s", "4420").queues = 1 },
	"v2601.spdk_get_version": func(r *replay) {
		r.fresh(WithVersion(26, 1))
		r.fake.opts.commit = "2ef883ef96"
		r.tcp()
		r.malloc("M")
		r.malloc("S")
		r.do("bdev_lvol_create_lvstore", `{"bdev_name":"S","lvs_name":"lc"}`)
		r.lvol("lc", "q1", 32)
		r.export("q", "4420", "lc/q1")
		r.addHost("q", example+"host-2")
	},
	"v2601.remove_host_qos_queue": func(r *replay) { r.writing("q", 28) },
	"malloc.noname_fresh":         func(r *replay) { r.fresh(); r.tcp() },
	"ns.add_defaults": func(r *replay) {
		r.malloc("A")
		r.malloc("B")
		r.do("nvmf_create_subsystem", `{"nqn":"`+example+`n"}`)
	},
	"lvstore.c": func(r *replay) { r.malloc("C") },
	"lvstore.delete_with_exported_lvol": func(r *replay) {
		r.lvol("lb", "e", 4)
		r.addNamespace("n", "lb/e")
	},
	"malloc.delete_under_lvstore": func(r *replay) { r.lvol("lb", "e", 4) },
}

func (r *replay) tcp() { r.do("nvmf_create_transport", `{"trtype":"TCP"}`) }

func (r *replay) malloc(name string) {
	r.do("bdev_malloc_create", fmt.Sprintf(`{"name":%q,"num_blocks":131072,"block_size":512}`, name))
}

func (r *replay) lvol(store, name string, mib int) {
	r.do("bdev_lvol_create", fmt.Sprintf(`{"lvs_name":%q,"lvol_name":%q,"size_in_mib":%d}`, store, name, mib))
}

// export makes a subsystem with a namespace, a listener and host-1 on its list.
func (r *replay) export(name, port, bdev string) {
	r.do("nvmf_create_subsystem", fmt.Sprintf(`{"nqn":%q}`, example+name))
	r.addNamespace(name, bdev)
	r.listen(name, port)
	r.addHost(name, host1)
}

func (r *replay) addNamespace(name, bdev string) {
	r.do("nvmf_subsystem_add_ns", fmt.Sprintf(`{"nqn":%q,"namespace":{"bdev_name":%q}}`, example+name, bdev))
}

func (r *replay) listen(name, port string) {
	r.do("nvmf_subsystem_add_listener", fmt.Sprintf(`{"nqn":%q,"listen_address":{"trtype":"TCP","traddr":"127.0.0.1","trsvcid":%q}}`, example+name, port))
}

func (r *replay) addHost(name, host string) {
	r.do("nvmf_subsystem_add_host", fmt.Sprintf(`{"nqn":%q,"host":%q}`, example+name, host))
}

func (r *replay) connect(name, host, port string) *Host {
	r.t.Helper()
	l, err := nvmeof.ParseListener("tcp://127.0.0.1:" + port)
	if err != nil {
		r.t.Fatal(err)
	}
	h, err := r.fake.Connect(host, example+name, l)
	if err != nil {
		r.t.Fatal(err)
	}
	return h
}

// writing connects host-1 with writes in flight to namespace 1.
func (r *replay) writing(name string, writes int) {
	r.t.Helper()
	h := r.connect(name, host1, "4420")
	for i := range writes {
		if err := h.Submit(1, fmt.Sprint(i)); err != nil {
			r.t.Fatal(err)
		}
	}
}
