import { test, expect } from '@jest/globals';
import { fc } from '../../../support/random/fc.ts';
import { encodeFrame, createFrameReader } from '../../../../tools/lab/guest/frames.ts';

test('frames arrive whole and in order, however their bytes are cut', () => {
  const frame = fc.tuple(fc.integer({ min: 1, max: 3 }), fc.uint8Array({ maxLength: 40 }));
  fc.assert(
    fc.property(fc.array(frame), fc.integer({ min: 1, max: 13 }), (frames, step) => {
      const bytes = Buffer.concat(frames.map(([type, payload]) => encodeFrame(type, Buffer.from(payload))));
      const seen: [number, string][] = [];
      const read = createFrameReader((type, payload) => seen.push([type, payload.toString('hex')]));
      for (let at = 0; at < bytes.length; at += step) read(bytes.subarray(at, at + step));
      expect(seen).toEqual(frames.map(([type, payload]) => [type, Buffer.from(payload).toString('hex')]));
    }),
  );
});
