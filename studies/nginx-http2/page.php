<?php
// The archive of a newsletter, with some sorting, grouping, formatting and escaping. The bytes are always
// the same: no current date, sessions or database.

$topics = ['Servers & <proxies>', 'Databases', 'Caches', 'TLS', '"Fast" PHP', 'Mail'];
$letters = [];
for ($number = 1; $number <= 48; $number++) {
    $letters[] = [
        'number' => $number,
        'topic'  => $topics[($number * 7) % count($topics)],
        'sent'   => sprintf('%04d-%02d-%02d', 2012 + intdiv($number, 12), $number % 12 + 1, $number * 5 % 28 + 1),
        'words'  => 400 + $number * 7919 % 1700,
    ];
}
usort($letters, fn ($a, $b) => [$a['topic'], $b['sent']] <=> [$b['topic'], $a['sent']]);

$by_topic = [];
foreach ($letters as $letter) {
    $by_topic[$letter['topic']][] = $letter;
}

header('Content-Type: text/html; charset=utf-8');
?>
<!DOCTYPE html>
<html lang="en">
<head><title>Archive</title></head>
<body>
<h1>Archive</h1>
<?php foreach ($by_topic as $topic => $of_topic): ?>
<h2><?= htmlspecialchars($topic) ?></h2>
<ul>
<?php foreach ($of_topic as $letter): ?>
<li id="n<?= $letter['number'] ?>"><a href="/letter/<?= $letter['number'] ?>">No. <?= $letter['number'] ?></a>, sent on <?= $letter['sent'] ?>, <?= number_format($letter['words']) ?> words</li>
<?php endforeach ?>
</ul>
<p><?= count($of_topic) ?> letters, <?= number_format(array_sum(array_column($of_topic, 'words'))) ?> words</p>
<?php endforeach ?>
</body>
</html>
