import { type RecordedEvent, toNodeRegarding, toApiEvent } from '../../../../lib/telemetry/events.ts';
import { describe, test, expect } from '@jest/globals';

const once: RecordedEvent = {
  reason: 'ApiserverDead',
  note: '10.0.0.11:6443 is dead: connection refused',
  regarding: toNodeRegarding('m1.example.com'),
  stamp: 0x66_0d_09_ad_e7_81_8,
  firstSeen: new Date('2026-11-21T21:57:40.123Z'),
  lastSeen: new Date('2026-11-21T21:57:42.456Z'),
  count: 1,
};

describe('an event', () => {
  test('is about the node, as kubectl describe node looks for it', () => {
    expect(toApiEvent(once, 'm1.example.com')).toEqual({
      apiVersion: 'events.k8s.io/v1',
      kind: 'Event',
      metadata: { name: 'm1.example.com.660d09ade7818', namespace: 'default' },
      eventTime: '2026-11-21T21:57:40.123000Z',
      type: 'Warning',
      reason: 'ApiserverDead',
      action: 'Probe',
      note: '10.0.0.11:6443 is dead: connection refused',
      regarding: { apiVersion: 'v1', kind: 'Node', name: 'm1.example.com', uid: 'm1.example.com' },
      reportingController: 'vipnat',
      reportingInstance: 'm1.example.com',
    });
  });

  test.each(['x', 'ü', '€', '😀'])('has a note of at most 1024 bytes, of whole characters (%s)', (letter) => {
    for (const start of ['', 'a', 'ab', 'abc']) {
      const note = String(toApiEvent({ ...once, note: start + letter.repeat(2000) }, 'm1')['note']);
      expect(Buffer.byteLength(note)).toBeLessThanOrEqual(1024);
      expect(Buffer.byteLength(note)).toBeGreaterThan(1024 - 4);
      expect(note).toBe(`${start}${letter.repeat((note.length - 1 - start.length) / letter.length)}…`);
    }
    const fitting = letter.repeat(1024 / Buffer.byteLength(letter));
    expect(toApiEvent({ ...once, note: fitting }, 'm1')['note']).toBe(fitting);
  });

  test('of a node with a long name has a name of its own that fits', () => {
    const node = `${'a'.repeat(62)}.`.repeat(4).slice(0, 251);
    const event = toApiEvent({ ...once, regarding: toNodeRegarding(node) }, node);
    expect(event.metadata.name).toMatch(/^[a-z0-9][a-z0-9.-]{0,251}[a-z0-9]$/);
    expect(event.metadata.name).toMatch(/[a-z0-9]\.660d09ade7818$/);
    expect(event).toMatchObject({ regarding: { name: node }, reportingInstance: node.slice(0, 128) });
  });
});
