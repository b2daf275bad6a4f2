package model

// Update is what is new in the Config of one fleet since the one before, by object and by host: the units in which a Config changes. It is empty when nothing is.
type Update struct {
	// Objects are the HTTPScaledObjects of which a Route, or the endpoints of one, are new. Each is there with all its Routes in the order of CompareRoutes
	// and what is there for them. One that has no Route any more is there with the zero Config.
	Objects map[Key]Config
	// Hosts are the hosts of which a Route or an effective weight is new, each with all its Routes, whoever owns them, in the order of CompareRoutes and
	// what is there for them. One that has no Route any more is there with the zero Config.
	Hosts map[Host]Config
	// Certificates are those of hosts that are new; nil for a host that has none any more.
	Certificates map[Host]*Certificate
}

// IsEmpty says that nothing is new.
func (u Update) IsEmpty() bool {
	return len(u.Objects) == 0 && len(u.Hosts) == 0 && len(u.Certificates) == 0
}
