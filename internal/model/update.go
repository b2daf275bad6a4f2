package model

// Update is the difference between two successive Configs of one fleet, by object and by host: the units in which a
// Config changes.
type Update struct {
	// Objects are the HTTPScaledObjects with a changed Route, or with changed endpoints of one. Each has all its Routes in
	// the order of CompareRoutes and their endpoints. An object without Routes has the zero Config.
	Objects map[Key]Config
	// Hosts are the hosts with a changed Route or effective weight, or with a destination whose endpoints begin or cease
	// to have Hints. Each has all its Routes, of all owners, in the order of CompareRoutes and their endpoints. A host
	// without Routes has the zero Config.
	Hosts map[Host]Config
	// Certificates are the changed ones; nil for a host that no longer has one.
	Certificates map[Host]*Certificate
}

// IsEmpty reports whether there is no change.
func (u Update) IsEmpty() bool {
	return len(u.Objects) == 0 && len(u.Hosts) == 0 && len(u.Certificates) == 0
}
