package redisbroker

import (
	"hash/fnv"
	"strconv"
	"sync"
)

// In a Cluster a command or a script can have only keys of one slot. The name of a queue decides
// in which of queueGroups groups it is; the queues of a group share a slot. So a process waits for
// all its queues on at most that many connections, and a claim of many queues takes at most that
// many calls. More groups would spread queues over more nodes.
const queueGroups = 16

const clusterSlots = 16384

// groupOf returns the group of a queue.
func groupOf(queue string) int {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(queue)) // never fails
	return int(hash.Sum32() % queueGroups)
}

// groupTags are the hash tags of each group, by prefix.
var groupTags sync.Map // prefix → *[queueGroups]string

// tagsOf returns hash tags whose slots are evenly spread over a Cluster, where each node has a
// range of slots. The prefix decides where the first one is, so that prefixes can be shards of one
// queue.
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

// slotOfTag returns the slot of keys with this hash tag: CRC16 of the XMODEM kind.
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
