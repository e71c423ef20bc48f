package spdkfake

import "encoding/json"

// key names the object of a call by one of its parameters.
func key(kind string, names ...string) func(*call) string {
	return func(x *call) string {
		var object map[string]json.RawMessage
		if json.Unmarshal(x.params, &object) != nil {
			return ""
		}
		for _, name := range names {
			var value string
			if json.Unmarshal(object[name], &value) != nil {
				continue
			}
			if b := x.server.process.bdev(value); b != nil {
				value = b.name // aliases are the same object
			}
			return kind + " " + value
		}
		return ""
	}
}

var methods map[string]method

func init() { // not initialised in place, because getMethods reads it
	subsystem, volume, bdev, store := key("subsystem", "nqn"), key("bdev", "name", "lvol_name", "snapshot_name", "old_name"), key("bdev", "name"), key("lvstore", "lvs_name", "uuid")
	methods = map[string]method{
		"spdk_get_version":         {run: getVersion, always: true},
		"spdk_kill_instance":       {run: killInstance, always: true},
		"rpc_get_methods":          {run: getMethods, always: true},
		"framework_start_init":     {run: startInit, startup: true},
		"framework_wait_init":      {run: waitInit, always: true},
		"framework_get_reactors":   {run: getReactors},
		"framework_get_config":     {run: getConfig},
		"iobuf_set_options":        {run: iobufOptions, startup: true},
		"bdev_set_options":         {run: bdevOptions, startup: true},
		"nvmf_set_config":          {run: accept, startup: true},
		"nvmf_set_max_subsystems":  {run: accept, startup: true},
		"sock_impl_set_options":    {run: accept, startup: true},
		"iobuf_get_stats":          {run: iobufStats},
		"notify_get_types":         {run: notifyTypes},
		"notify_get_notifications": {run: getNotes},

		"bdev_get_bdevs":        {run: getBdevs},
		"bdev_get_iostat":       {run: getIostat},
		"bdev_wait_for_examine": {run: waitExamine},
		"bdev_malloc_create":    {run: mallocCreate, object: bdev},
		"bdev_malloc_delete":    {run: deleteBdev, object: bdev},
		"bdev_aio_create":       {run: aioCreate, object: bdev},
		"bdev_aio_delete":       {run: deleteBdev, object: bdev},
		"bdev_aio_rescan":       {run: aioRescan, object: bdev},
		"bdev_delay_create":     {run: delayCreate, object: bdev},
		"bdev_delay_delete":     {run: deleteBdev, object: bdev},
		"bdev_set_qos_limit":    {run: setLimit, object: bdev},

		"bdev_nvme_attach_controller": {run: attachController, object: key("drive", "name")},
		"bdev_nvme_detach_controller": {run: detachController, object: key("drive", "name")},
		"bdev_nvme_get_controllers":   {run: getNVMeControllers},

		"bdev_lvol_create_lvstore":  {run: storeCreate, object: store},
		"bdev_lvol_delete_lvstore":  {run: storeDelete, object: store},
		"bdev_lvol_grow_lvstore":    {run: storeGrow, object: store},
		"bdev_lvol_get_lvstores":    {run: getStores},
		"bdev_lvol_get_lvols":       {run: getLvols},
		"bdev_lvol_create":          {run: lvolCreate, object: store},
		"bdev_lvol_resize":          {run: lvolResize, object: volume},
		"bdev_lvol_snapshot":        {run: lvolSnapshot, object: volume},
		"bdev_lvol_clone":           {run: lvolClone, object: volume},
		"bdev_lvol_inflate":         {run: lvolDetach(true), object: volume},
		"bdev_lvol_decouple_parent": {run: lvolDetach(false), object: volume},
		"bdev_lvol_rename":          {run: lvolRename, object: volume},
		"bdev_lvol_set_read_only":   {run: lvolReadOnly, object: volume},
		"bdev_lvol_delete":          {run: lvolDelete, object: volume},

		"nvmf_create_transport":          {run: createTransport, object: key("transport", "trtype")},
		"nvmf_get_transports":            {run: getTransports},
		"nvmf_get_stats":                 {run: nvmfStats},
		"nvmf_get_subsystems":            {run: getSubsystems},
		"nvmf_create_subsystem":          {run: createSubsystem, object: subsystem},
		"nvmf_delete_subsystem":          {run: deleteSubsystem, object: subsystem},
		"nvmf_subsystem_add_ns":          {run: addNamespace, object: subsystem},
		"nvmf_subsystem_remove_ns":       {run: removeNamespace, object: subsystem},
		"nvmf_subsystem_add_host":        {run: addHost, object: subsystem},
		"nvmf_subsystem_remove_host":     {run: removeHost, object: subsystem},
		"nvmf_subsystem_allow_any_host":  {run: allowAnyHost, object: subsystem},
		"nvmf_subsystem_add_listener":    {run: addListener, object: subsystem},
		"nvmf_subsystem_remove_listener": {run: removeListener, object: subsystem},
		"nvmf_subsystem_get_listeners":   {run: getListeners},
		"nvmf_subsystem_get_controllers": {run: getControllers},
		"nvmf_subsystem_get_qpairs":      {run: getQueuePairs},
	}
}
