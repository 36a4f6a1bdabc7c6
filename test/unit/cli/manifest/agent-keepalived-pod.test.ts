import { describe, test, expect } from '@jest/globals';
import { print, findPodSpec, ownImage, ownImages, readWords } from '../../../support/manifest/printing.ts';

const words = ['keepalived', '--vip', '10.0.0.50', '--keepalived-image', 'registry.example/keepalived:2.2.7'];

describe('keepalived as a static pod', () => {
  test('has its configuration written by vipnat, for the node, where both containers see it', async () => {
    const more = '--peers 10.0.0.12,10.0.0.11 --advert 0.3s --run-dir /run/x/ --mode direct'.split(' ');
    const { initContainers, containers, volumes } = findPodSpec(await print([...words, ...more]));
    const file = '/run/x/keepalived/keepalived.conf';
    expect(initContainers).toMatchObject([
      {
        image: ownImage,
        args: [
          ...['keepalived', '--vip=10.0.0.50:6443', '--run-dir=/run/x/'],
          ...['--peers=10.0.0.12,10.0.0.11', '--advert=300ms', `--output=${file}`],
        ],
        volumeMounts: [{ name: 'keepalived', mountPath: '/run/x/keepalived' }],
      },
    ]);
    expect(containers[0].args).toContain(`--use-file=${file}`);
    expect(containers[0].volumeMounts).toContainEqual({ name: 'keepalived', mountPath: '/run/x/keepalived' });
    // keepalived drops a track file whose folder is not there.
    expect(volumes[0]).toEqual({
      name: 'keepalived',
      hostPath: { path: '/run/x/keepalived', type: 'DirectoryOrCreate' },
    });
  });

  test("has keepalived's image of the same build, unless another is named", async () => {
    const findImage = async (given: readonly string[]) => findPodSpec(await print(given)).containers[0].image;
    expect(await findImage(words.slice(0, 3))).toBe(ownImages.keepalived);
    expect(await findImage(words)).toBe('registry.example/keepalived:2.2.7');
  });

  test('stands in the first line, as a command that prints the same', async () => {
    const more = ['--interface', 'eth0', '--vrid', '7', '--priority', '9', '--image', 'a/vipnat:2'];
    const text = await print([...words, ...more]);
    const [first = ''] = text.split('\n');
    expect(first).toMatch(
      / --interface=eth0 --vrid=7 --priority=9 --keepalived-image=\S+ --image=.*vipnat:2$/,
    );
    expect(await print(first.split(' ').slice(3))).toBe(text);
  });

  test.each([
    [
      [...words, '--keepalived-image', 'A B'],
      '--keepalived-image "A B" is not an image reference. Example: --keepalived-image registry.example/keepalived:2.2.7',
    ],
    [
      [...words, '--priority', '255'],
      '--priority 255 is not a whole number from 1 to 254. Example: --priority 110',
    ],
    [
      ['static-pod', '--vip', '10.0.0.50', '--peers', '10.0.0.11'],
      '--peers is for vipnat manifest keepalived only. Leave it out',
    ],
  ])('%j is told what is wrong', async (given, problem) => {
    expect((await readWords(given)).problems).toEqual([problem]);
  });
});
