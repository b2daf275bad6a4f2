package view

import "time"

// MaxPoints limits the Points of one object.
const MaxPoints = 120

// PointOf returns the present Point of an object, and false if it has no split.
func PointOf(source Source, now time.Time) (Point, bool) {
	weights := splitOf(source)
	if weights == nil {
		return Point{}, false
	}
	point := Point{
		Time:    now,
		Written: canaryPercent(weights, func(w Weight) uint32 { return w.Written }),
		Active:  canaryPercent(weights, func(w Weight) uint32 { return w.Active }),
	}
	if report := source.Object.Status.DataPlane; report != nil {
		point.Proxies = Proxies{Ready: report.Proxies.Ready, Acked: report.Proxies.Acked}
		point.IsEffective = report.Effective
	}
	return point, true
}

// canaryPercent returns the percentage of the weights that the stable Service does not have.
func canaryPercent(weights []Weight, of func(Weight) uint32) float64 {
	const percent = 100
	sum := 0.0
	for _, weight := range weights {
		sum += float64(of(weight))
	}
	if sum == 0 {
		return 0
	}
	return round(percent * (sum - float64(of(weights[0]))) / sum)
}

// AddPoint adds a Point to those of an object if it differs from the last one. It never changes the array of points, so
// that a reader can use the previous slice.
func AddPoint(points []Point, point Point) []Point {
	if len(points) > 0 {
		last := points[len(points)-1]
		last.Time = point.Time
		if last == point {
			return points
		}
	}
	start := max(0, len(points)-MaxPoints+1)
	return append(points[start:len(points):len(points)], point)
}

// Ended returns the Point of an object whose split has ended.
func Ended(source Source, now time.Time) Point {
	point := Point{Time: now}
	if report := source.Object.Status.DataPlane; report != nil {
		point.Proxies = Proxies{Ready: report.Proxies.Ready, Acked: report.Proxies.Acked}
		point.IsEffective = report.Effective
	}
	return point
}
