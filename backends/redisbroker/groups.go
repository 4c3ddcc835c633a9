package redisbroker

import (
	"hash/fnv"
	"strconv"
	"sync"
)

// In a Cluster one command, and one script, can have the keys of one slot only. Queues are
// in queueGroups groups by their names, and those of a group share a slot: so a process
// waits for all its queues on at most so many connections, and a claim of a hundred queues
// takes at most so many calls. More groups would spread queues over more nodes.
const queueGroups = 16

const clusterSlots = 16384

// groupOf is the group of a queue.
func groupOf(queue string) int {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(queue)) // never fails
	return int(hash.Sum32() % queueGroups)
}

// groupTags are what the keys of each group have in braces, by prefix.
var groupTags sync.Map // prefix → *[queueGroups]string

// tagsOf finds tags whose slots lie evenly over a Cluster: nodes have ranges of slots. Where
// the first one lies follows from the prefix: so prefixes can be shards of one queue.
func tagsOf(prefix string) *[queueGroups]string {
	if known, ok := groupTags.Load(prefix); ok {
		return known.(*[queueGroups]string)
	}
	const apart = clusterSlots / queueGroups
	start, tags := slotOfTag(prefix), new([queueGroups]string)
	for n, missing := 0, queueGroups; missing > 0; n++ {
		tag := strconv.FormatInt(int64(n), 36)
		from := slotOfTag(tag) - start + clusterSlots
		if group := from / apart % queueGroups; from%apart == 0 && tags[group] == "" {
			tags[group] = tag
			missing--
		}
	}
	known, _ := groupTags.LoadOrStore(prefix, tags)
	return known.(*[queueGroups]string)
}

// slotOfTag is the slot of keys with this in braces: CRC16 of the XMODEM kind.
func slotOfTag(tag string) int {
	crc := uint16(0)
	for _, c := range []byte(tag) {
		crc ^= uint16(c) << 8
		for range 8 {
			carry := crc&0x8000 != 0
			if crc <<= 1; carry {
				crc ^= 0x1021
			}
		}
	}
	return int(crc) % clusterSlots
}
