import { type Illness } from './illness.ts';
import { type SickHost } from './sick-host.ts';

const shell = (text: string) => (host: SickHost) => host.shell(text);

/** What can be wrong between the agent and keepalived. */
export const trackFileIllnesses: readonly Illness[] = [
  {
    name: 'a keepalived that has lost its track file',
    faults: [
      {
        code: 'track-file-dropped',
        seed: shell(
          'mv /run/vipnat/keepalived /run/vipnat/old; rm -r /run/vipnat/old; mkdir /run/vipnat/keepalived',
        ),
      },
    ],
  },
  {
    name: 'a word that nobody stands for any more',
    faults: [{ code: 'track-file-stale', seed: shell('echo 1 >/run/vipnat/keepalived/serving') }],
  },
];
