/// 256 short words, one a byte: easy to say on the telephone and hard to take for one another.
///
/// Both operators of a peering must have the same list in the same order: it never changes.
enum WordList {
  static let words: [Substring] = """
    acorn actor agate album alder amber angle ankle apple april apron arena arrow atlas attic audio bacon badge
    baker bamboo banjo barge basil basket beach beacon beaver bench berry birch bishop bison blanket blossom
    bonus bottle branch bread brick bridge broom bubble bucket butter cabin cactus camel candle canoe canyon
    carbon cargo carrot castle cedar cello chalk cherry chimney cider circus cliff clock cloud clover cobalt
    coffee comet copper coral cotton crane cricket crown cumin dagger daisy dancer delta denim desert diamond
    dinner dolphin donkey dragon drum eagle easel echo elbow elder ember emerald engine falcon feather fennel
    ferry fiddle flint flute forest fossil fountain fox galaxy garden garlic gecko ginger glacier glove goblet
    granite grape gravel guitar hammer harbor harp hawk hazel helmet heron hickory honey hornet iceberg igloo
    indigo iris island ivory jacket jaguar jasmine jigsaw jungle juniper kayak kernel kettle kiosk kitten koala
    ladder lagoon lantern lava lemon leopard lilac linen lizard lobster lotus magnet mango maple marble meadow
    melon meteor mirror mitten monkey mosaic mountain muffin napkin nectar needle nickel noodle nutmeg oasis
    ocean olive onion opal orange orbit orchid otter oyster paddle palm panda paper parrot peach pebble pencil
    pepper piano pigeon pillow pine planet plum pocket pony poppy prairie pretzel prism pumpkin puzzle quartz
    quilt rabbit radish raven ribbon river robin rocket saddle saffron salmon sandal satin scarf shadow silver
    socket sparrow spider sponge stable sugar sunset swan table tango teapot temple thunder tiger timber tomato
    topaz trumpet tulip tunnel turtle velvet violin walnut willow window winter yogurt zebra zinc
    """.split { $0 == " " || $0 == "\n" }
}
